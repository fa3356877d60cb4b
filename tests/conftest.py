"""What all tests share."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

# Set before any numerical library is imported: tests see the numbers that the steps compute.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
# Programs that tests start keep compiled modules, as they do for users; each would compile anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True)
def one_state_of_the_libraries() -> None:
    """Set the number of threads before every test, even where it is that number already.

    A training by autograd leaves its process with other kernels of MKL, which round otherwise in
    the last digit, until the number is set: results would depend on which tests ran before. Tests
    that compare bytes with those of a process of their own set it there, too.
    """
    import torch  # after the variables above

    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def tables_in_chunks() -> Iterator[None]:
    """Read short tables in several chunks, as those of more than 131,072 rows are read.

    Arrow makes another type of a column of pandas that has several.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def in_chunks(read: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
        def split(*arguments: Any, **options: Any) -> pa.Table:
            table = read(*arguments, **options)
            rows = max(1, table.num_rows // 3)
            parts = [table.slice(start, rows) for start in range(0, table.num_rows, rows)]
            return pa.concat_tables(parts) if parts else table

        return split

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq, "read_table", in_chunks(pq.read_table))
        patch.setattr(pq.ParquetFile, "read", in_chunks(pq.ParquetFile.read))
        yield


@pytest.fixture
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read shards in the process of the test: a worker needs a second to begin."""
    from mispair.pairs.index import index_parts, parts

    def in_turn(
        task: Callable[[Any, Callable[[], None]], Any], items: Iterable[Any], **_: Any
    ) -> Iterator[tuple[Any, Any]]:
        index_parts._opened.cache_clear()  # as in a new process
        for item in items:
            yield item, task(item, lambda: None)

    monkeypatch.setattr(parts, "supervise", in_turn)
