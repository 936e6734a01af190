"""The estimator ``vpo`` of veRL: our normalisation in the place of ``grpo``'s.

veRL loads this module as it starts: the package's entry point in the group ``verl.plugins`` names
it. Then ``algorithm.adv_estimator=vpo`` works, with eps from ``algorithm.vpo.eps``.

It differs from ``grpo`` in the convention:

- std with G, not G - 1, and eps of your choice
- a group of one rollout has advantage 0, not its own reward
- equal rewards have exactly 0. In float32 ``grpo`` divides what rounding leaves by 1e-6: twelve
  rewards of 0.7 had 0.106 each.

An estimator of veRL sees one reward for each rollout, the ids of the groups and
``config.algorithm``. It never sees the m answers, nor their vectors: so it needs
:class:`~.verl.SetRewardManager` before it. From these rewards it also makes the advantages of
max_at_k and maxrl, which are no z-scores, where ``algorithm.vpo.method`` names them.
"""

from ..estimators import OF_SCORES, advantages


def vpo_advantage(token_level_rewards, response_mask, index, config=None, **_):
    """Advantages and returns, both (N, T), the same on every token of a rollout: its z-score within
    its group, or what max_at_k or maxrl make of it.

    - token_level_rewards (N, T): they add up to the reward of a rollout
    - response_mask (N, T): 1 on completion tokens
    - index (N,): the id of each rollout's group; groups may differ in size
    - config: ``algorithm`` of veRL's configuration

    Source: 2605.22817. A = (U - mean) / (std + eps), population std, eps 1e-6. Raises ValueError
    for a group of max_at_k that has no more than k rollouts.
    """
    rewards = token_level_rewards.sum(-1).double().cpu().numpy()
    own = (config or {}).get("vpo") or {}
    method = own.get("method") if own.get("method") in OF_SCORES else "grpo"
    how = dict(eps=own.get("eps", 1e-6), k=own.get("k") if method == "max_at_k" else None)
    found = advantages(method, rewards[:, None, None], groups=list(index), **how)
    spread = token_level_rewards.new_tensor(found)[:, None] * response_mask
    return spread, spread


try:
    from verl.trainer.ppo.core_algos import register_adv_est
except ImportError:  # there is no veRL to tell
    pass
else:
    register_adv_est("vpo")(vpo_advantage)
