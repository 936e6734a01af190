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
:class:`~.verl.SetRewardManager` before it.
"""

from ..estimators import advantages


def vpo_advantage(token_level_rewards, response_mask, index, config=None, **_):
    """Advantages and returns, both (N, T): a rollout's z-score within its group, on every token.

    - token_level_rewards (N, T): they add up to the reward of a rollout
    - response_mask (N, T): 1 on completion tokens
    - index (N,): the id of each rollout's group; groups may differ in size
    - config: ``algorithm`` of veRL's configuration

    Source: 2605.22817. A = (U - mean) / (std + eps), population std, eps 1e-6.
    """
    rewards = token_level_rewards.sum(-1).double().cpu().numpy()
    eps = ((config or {}).get("vpo") or {}).get("eps", 1e-6)
    found = advantages("grpo", rewards[:, None, None], groups=list(index), eps=eps)
    spread = token_level_rewards.new_tensor(found)[:, None] * response_mask
    return spread, spread


try:
    from verl.trainer.ppo.core_algos import register_adv_est
except ImportError:  # there is no veRL to tell
    pass
else:
    register_adv_est("vpo")(vpo_advantage)
