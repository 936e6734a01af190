"""A user's own reward function, the same before and after."""


def compute_score(data_source, solution_str, ground_truth, extra_info):
    correct = float(solution_str.strip() == ground_truth)
    brief = 1 / max(1, len(solution_str.split()))
    return {"score": (correct + brief) / 2, "correct": correct, "brief": brief}
