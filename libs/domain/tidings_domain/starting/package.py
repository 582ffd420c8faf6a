"""Writes a starting domain as a package with a module for each aggregate, so that another aggregate is another file."""

import json

from tidings_domain.contracts.codegen import generate
from tidings_domain.contracts.contracts import parse_contracts
from tidings_domain.starting.naming import identifier, kebab
from tidings_domain.starting.proposal import Proposal, Proposed
from tidings_domain.starting.texts import contract, event_name, module_text, test_text

_RESERVED = frozenset({"events", "versions"})


def package_files(domain: str, package: str, proposal: Proposal) -> dict[str, str]:
    """Path to text: the package, a module and a test for each aggregate, and the contracts."""
    files = {f"{package}/__init__.py": f'"""What the tables of {domain} mean, and what of it is news."""\n'}
    for aggregate in proposal.aggregates:
        own, module = proposal.of(aggregate), module_name(aggregate)
        files[f"{package}/{module}.py"] = module_text(package, own)
        files[f"tests/test_{module}.py"] = test_text(package, own)
        files[f"schemas/{domain}/{event_name(aggregate)}/v1.avsc"] = (
            json.dumps(contract(domain, aggregate), indent=2, ensure_ascii=False) + "\n"
        )
    return files


def events_text(domain: str, schemas: dict[str, str]) -> str:
    """The module of event classes.

    Args:
        schemas: contracts by their path below the schemas' directory.
    """
    return generate(domain, parse_contracts(schemas, "schemas"))


def module_name(aggregate: Proposed) -> str:
    """``loan_item`` for LoanItem."""
    name = identifier(kebab(aggregate.root.cls).replace("-", "_"))
    return f"{name}_" if name in _RESERVED else name
