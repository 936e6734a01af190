"""Expected values by brute force, for several test files."""

from itertools import combinations

import numpy as np


def brute_force_max_at_k(r, k):
    def mean_max(subsets):
        return np.mean([max(r[j] for j in s) for s in subsets])

    everyone = list(combinations(range(len(r)), k))
    return [
        mean_max([s for s in everyone if i in s]) - mean_max([s for s in everyone if i not in s])
        for i in range(len(r))
    ]
