"""What the tests of the domain library share."""

from boxes import box_contracts, box_domain, box_files, make_contract, node, write_domain  # noqa: F401 - fixtures
