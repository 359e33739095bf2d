"""Private records in partitions of all kinds, for tests."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import mechanisms as mx

CUTS = ((2000,), (1200, 800), (3, 597, 400, 0, 1, 300, 699))
"""On 1, 2 and 7 partitions, one of them empty."""

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 6)).astype(np.float32)
X[700:720] = X[100:120]  # ties across partitions
X[1500:1600] = 1.0
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
QUERIES = RNG.normal(size=(40, 6)).astype(np.float32)
QUERIES[7] = 1.0


def private_knn(**changes):
    parameters = {"n_neighbors": 30, "sampling_rate": 0.2, "screening_sigma": 4.0, "vote_sigma": 2.0, "n_classes": 3}
    return mx.PrivateKNN(**{**parameters, "rng": 1, **changes})


def individual_knn(**changes):
    parameters = {"budget": 0.2, "threshold": 0.4, "count_sigma": 10.0, "vote_sigma": 0.4, "n_classes": 3, "rng": 1}
    return mx.IndividualKNN(**{**parameters, **changes})


def reverse_knn(**changes):
    return mx.ReverseKNN(**{"n_queries": 8, "n_neighbors": 2, "n_classes": 3, "rng": 1, **changes})


def cut(cuts, x=X, y=Y):
    """Dask arrays of records and labels."""
    import dask.array as da

    return da.from_array(x, chunks=(cuts, -1)), da.from_array(y, chunks=(cuts, *((-1,) * (np.ndim(y) - 1))))


def write_parquet(folder, cuts=(1200, 800), rows=150, lists=True, x=X, y=Y):
    """A directory of Parquet files; a record's identifier is its number."""
    folder.mkdir(exist_ok=True)
    ends = np.cumsum(cuts)
    for i, (first, end) in enumerate(zip(ends - cuts, ends, strict=True)):
        part = x[first:end]
        columns = {f"f{j}": part[:, j] for j in range(part.shape[1])}
        if lists:
            columns = {"features": pa.FixedSizeListArray.from_arrays(part.ravel(), part.shape[1])}
        ids = [f"person {number}" for number in range(first, end)]
        table = pa.table({**columns, "label": y[first:end], "person": pa.array(ids, pa.string())})
        pq.write_table(table, folder / f"part-{i:03}.parquet", row_group_size=rows)
    return folder
