"""The notebook goes from a data set to figures, cell by cell."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.evaluators.dataset.making import make

NOTEBOOK = Path(__file__).parents[2] / "examples" / "figures.ipynb"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the kernel
def test_the_notebook_draws_its_figures(tmp_path: Path) -> None:
    made = make(tmp_path)
    made.folder.rename(tmp_path / "my-games")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, startup_timeout=200, resources={"metadata": {"path": str(tmp_path)}}
    )
    # Over ports, it would ask for free ones, and be told of them long before it uses them.
    client.create_kernel_manager()
    client.km.transport, client.km.ip = "ipc", str(tmp_path / "kernel")
    done = client.execute()
    shown = [_shown(cell) for cell in done.cells if cell.cell_type == "code"]
    assert shown[0] == {"text/plain": "'6 games, 2 cells'"}
    for chart in shown[1:5]:
        assert '"datasets": {"data-' in chart["text/html"]
    assert "reasonable" in shown[5]["text/plain"]


def test_the_notebook_is_kept_without_results() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def _shown(cell: Any) -> dict[str, Any]:
    [output] = [output for output in cell.outputs if output.output_type == "execute_result"]
    return dict(output.data)
