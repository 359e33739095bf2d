"""Imported by the server process that children are forked from, so that they need not load the compiled loops again."""

import mechanisms as mx

for kernel in ("cosine", "rbf"):
    model = mx.IndividualKNN(
        budget=5.0, threshold=0.0, count_sigma=5.0, vote_sigma=5.0, kernel=kernel, min_count=1.0, n_classes=2
    )
    model.fit([[0.0, 1.0]], [0]).predict([[0.0, 1.0]])
