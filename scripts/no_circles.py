"""A rule of import-linter: no modules import one another in a circle, those that only types need included."""

from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class NoCircles(Contract):
    """Holds for all modules of the root packages; a package's imports count as its own, not as its modules'."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - the library's signature
        """See `Contract`."""
        imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            # graphlib names each module behind the one that it is imported by.
            return ContractCheck(kept=False, metadata={"circle": error.args[1]})
        return ContractCheck(kept=True)

    def render_broken_contract(self, check: ContractCheck) -> None:
        """See `Contract`."""
        output.print_error(" -> ".join(reversed(check.metadata["circle"])))
