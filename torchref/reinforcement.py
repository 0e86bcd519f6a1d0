"""One step of an actor-critic with a shared trunk, in two forms, and of TD3."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

Losses = tuple[Tensor, Tensor]


@dataclass
class SharedTrunk:
    """A policy and a value that read the same features."""

    trunk: nn.Module
    policy: nn.Module
    value: nn.Module

    def losses(self, observations: Tensor, actions: Tensor, returns: Tensor, entropy: float = 0.01) -> Losses:
        """The loss of the policy, which takes the advantage as a constant, and that of the value."""
        features = self.trunk(observations)
        logits, values = self.policy(features), self.value(features)[:, 0]
        advantage = (returns - values).detach()
        distribution = torch.distributions.Categorical(logits=logits)
        policy_loss = -(advantage * distribution.log_prob(actions)).mean() - entropy * distribution.entropy().mean()
        return policy_loss, F.mse_loss(values, returns)


def actor_critic_step(
    model: SharedTrunk, optimizer: Optimizer, observations: Tensor, actions: Tensor, returns: Tensor
) -> Losses:
    """A2C: one optimizer over everything, on the sum of both losses. Returns ``(policy, value)`` before the update."""
    policy_loss, value_loss = model.losses(observations, actions, returns)
    optimizer.zero_grad()
    (policy_loss + 0.5 * value_loss).backward()
    optimizer.step()
    return policy_loss.detach(), value_loss.detach()


def actor_then_critic_step(
    model: SharedTrunk,
    actor_optimizer: Optimizer,
    critic_optimizer: Optimizer,
    observations: Tensor,
    actions: Tensor,
    returns: Tensor,
) -> Losses:
    """An optimizer of trunk and policy, then, on a fresh forward pass, an optimizer of trunk and value.

    Returns both losses, each at the parameters it was computed with.
    """
    policy_loss, _ = model.losses(observations, actions, returns)
    actor_optimizer.zero_grad()
    policy_loss.backward()
    actor_optimizer.step()

    _, value_loss = model.losses(observations, actions, returns)
    critic_optimizer.zero_grad()
    value_loss.backward()
    critic_optimizer.step()
    return policy_loss.detach(), value_loss.detach()


@dataclass
class TD3:
    """Twin critics, an actor, a slow copy of each, an optimizer for both critics and one for the actor."""

    actor: nn.Module
    critic1: nn.Module
    critic2: nn.Module
    actor_target: nn.Module
    critic1_target: nn.Module
    critic2_target: nn.Module
    actor_optimizer: Optimizer
    critic_optimizer: Optimizer
    discount: float = 0.99
    tau: float = 0.05
    policy_delay: int = 2
    noise_clip: float = 0.5

    def critic_loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Both critics against the smaller of the two targets at a smoothed target action."""
        with torch.no_grad():
            noise = batch["noise"].clamp(-self.noise_clip, self.noise_clip)
            next_action = (self.actor_target(batch["next_observation"]) + noise).clamp(-1, 1)
            q1, q2 = (
                score(critic, batch["next_observation"], next_action)
                for critic in (self.critic1_target, self.critic2_target)
            )
            target = batch["reward"] + self.discount * (1 - batch["done"]) * torch.minimum(q1, q2)
        q1, q2 = (score(critic, batch["observation"], batch["action"]) for critic in (self.critic1, self.critic2))
        return F.mse_loss(q1, target) + F.mse_loss(q2, target)

    def actor_loss(self, batch: dict[str, Tensor]) -> Tensor:
        """What critic 1 says of the actor's actions; critic 2 is not asked."""
        return -score(self.critic1, batch["observation"], self.actor(batch["observation"])).mean()


def score(critic: Callable[[Tensor], Tensor], observation: Tensor, action: Tensor) -> Tensor:
    """``(n,)``: the value of the actions."""
    return critic(torch.cat([observation, action], dim=1))[:, 0]


def td3_step(agent: TD3, step: int, batch: dict[str, Tensor]) -> Tensor:
    """The critics; at steps 0, 2, 4, ... also the actor and the slow copies. Returns the loss of the critics."""
    critic_loss = agent.critic_loss(batch)
    agent.critic_optimizer.zero_grad()
    critic_loss.backward()
    agent.critic_optimizer.step()

    if step % agent.policy_delay == 0:
        actor_loss = agent.actor_loss(batch)
        agent.actor_optimizer.zero_grad()
        actor_loss.backward()
        agent.actor_optimizer.step()
        with torch.no_grad():
            for model, copy in (
                (agent.actor, agent.actor_target),
                (agent.critic1, agent.critic1_target),
                (agent.critic2, agent.critic2_target),
            ):
                for param, target in zip(model.parameters(), copy.parameters(), strict=True):
                    target.copy_(agent.tau * param + (1 - agent.tau) * target)
    return critic_loss.detach()
