"""The programs of the suite ``programs`` in PyTorch, as people write them: eager, or each net under torch.compile."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ._case import Outputs, Program
from ._device import Device
from ._program_losses import DISCOUNT, PENALTY
from ._programs import LEARNING_RATE, N_CRITIC, POLICY_DELAY, TAU, Training
from ._torch import Tensor, to_numpy, torch, torch_program, warm_up_compiler

Modules = dict[str, torch.nn.Module]
Step = Callable[[int, dict[str, Tensor]], Any]


def loop(training: Training, device: Device, *, compiles: bool) -> Program:
    """A step a batch. Each call trains on from where the last one ended, as in-place steps do."""
    nets = {name: _mlp(layers).to(device.torch) for name, layers in training.nets().items()}
    if training.kind == "td3":
        for name in ("actor", "actor_target"):
            nets[name].append(torch.nn.Tanh())
    if compiles:
        warm_up_compiler(device.torch)
    step = STEPS[training.kind](
        {name: torch.compile(net, dynamic=False) if compiles else net for name, net in nets.items()}
    )
    batches = _batches(training, device)

    def run() -> None:
        for i, batch in enumerate(batches):
            step(i, batch)

    def outputs(_: None) -> Outputs:
        return training.outputs({name: _layers(net) for name, net in nets.items()})

    return torch_program(run, outputs, device, compiles=compiles)


def _gan(nets: Modules) -> Step:
    from torchref.two_model import gan_step

    models = nets["generator"], nets["discriminator"]
    optimizers = [_adam(model) for model in models]
    criterion = torch.nn.functional.binary_cross_entropy_with_logits
    return lambda _, batch: gan_step(*models, *optimizers, criterion, batch["noise"], batch["real"])


def _wgan_gp(nets: Modules) -> Step:
    from torchref.adversarial import wgan_gp_step

    models = nets["generator"], nets["discriminator"]
    optimizers = [_adam(model) for model in models]
    return lambda _, batch: wgan_gp_step(
        *models, *optimizers, batch["noise"], batch["real"], batch["mix"], n_critic=N_CRITIC, penalty=PENALTY
    )


def _actor_critic(nets: Modules) -> Step:
    from torchref.reinforcement import SharedTrunk, actor_critic_step

    model, optimizer = SharedTrunk(**nets), _adam(*nets.values())
    return lambda _, batch: actor_critic_step(model, optimizer, batch["observation"], batch["action"], batch["return"])


def _td3(nets: Modules) -> Step:
    from torchref.reinforcement import TD3, td3_step

    agent = TD3(
        **nets,
        actor_optimizer=_adam(nets["actor"]),
        critic_optimizer=_adam(nets["critic1"], nets["critic2"]),
        discount=DISCOUNT,
        tau=TAU,
        policy_delay=POLICY_DELAY,
    )
    return lambda i, batch: td3_step(agent, i, batch)


STEPS = {"gan": _gan, "wgan-gp": _wgan_gp, "actor-critic": _actor_critic, "td3": _td3}


def _batches(training: Training, device: Device) -> list[dict[str, Tensor]]:
    batches = training.batches()
    batches.pop("key", None)
    tensors = {name: torch.tensor(np.asarray(array), device=device.torch) for name, array in batches.items()}
    tensors = {name: t.long() if t.dtype == torch.int32 else t for name, t in tensors.items()}
    return [{name: t[i] for name, t in tensors.items()} for i in range(training.steps)]


def _adam(*nets: torch.nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam([param for net in nets for param in net.parameters()], lr=LEARNING_RATE)


def _mlp(layers: list[tuple[np.ndarray, np.ndarray]]) -> torch.nn.Sequential:
    modules: list[torch.nn.Module] = []
    for weight, bias in layers:
        linear = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight.T))
            linear.bias.copy_(torch.tensor(bias))
        modules += [torch.nn.ReLU(), linear]
    return torch.nn.Sequential(*modules[1:])


def _layers(net: torch.nn.Sequential) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(to_numpy(m.weight).T, to_numpy(m.bias)) for m in net if isinstance(m, torch.nn.Linear)]
