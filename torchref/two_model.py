"""One step of two chained models with two losses, in every form that PyTorch programs take.

``model2`` reads what ``model1`` gives, and ``loss2`` is stepped first:

    a = model1(x)    l1 = criterion1(a, y1)    b = model2(a)    l2 = criterion2(b, y2)

What a program computes hangs on where ``detach``, ``retain_graph``, ``zero_grad`` and ``step`` stand. Each step returns
``(l1, l2)`` before the update.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer

Losses = tuple[Tensor, Tensor]


@dataclass
class TwoModels:
    """Two chained models, an optimizer for each (``optimizer2`` may hold both models), and their criteria."""

    model1: nn.Module
    model2: nn.Module
    optimizer1: Optimizer
    optimizer2: Optimizer
    criterion1: Callable[[Tensor, Tensor], Tensor]
    criterion2: Callable[[Tensor, Tensor], Tensor]

    def losses(self, x: Tensor, y1: Tensor, y2: Tensor, *, detach: bool = False) -> Losses:
        """One forward pass through both models."""
        a = self.model1(x)
        b = self.model2(a.detach() if detach else a)
        return self.criterion1(a, y1), self.criterion2(b, y2)


def no_retain_step(pair: TwoModels, x: Tensor, y1: Tensor, y2: Tensor) -> Losses:
    """Two ``backward`` calls through one graph: RuntimeError at the second, after optimizer2 has stepped already."""
    l1, l2 = pair.losses(x, y1, y2)
    pair.optimizer2.zero_grad()
    l2.backward()
    pair.optimizer2.step()
    pair.optimizer1.zero_grad()
    l1.backward()
    pair.optimizer1.step()
    return l1.detach(), l2.detach()


def retain_step(pair: TwoModels, x: Tensor, y1: Tensor, y2: Tensor) -> Losses:
    """``retain_graph``, and ``optimizer1.zero_grad`` between the backwards: each model its own loss, old parameters.

    With ``optimizer2`` over both models, model1 is moved by both optimizers. That works while the second backward needs
    no parameter that optimizer2 changed in place: with a model1 of more than one layer it raises RuntimeError.
    """
    l1, l2 = pair.losses(x, y1, y2)
    pair.optimizer2.zero_grad()
    l2.backward(retain_graph=True)
    pair.optimizer2.step()
    pair.optimizer1.zero_grad()
    l1.backward()
    pair.optimizer1.step()
    return l1.detach(), l2.detach()


def detach_step(pair: TwoModels, x: Tensor, y1: Tensor, y2: Tensor) -> Losses:
    """``detach`` between the models: each model its own loss.

    With ``optimizer2`` over both models, model1 silently gets nothing from ``l2``.
    """
    l1, l2 = pair.losses(x, y1, y2, detach=True)
    pair.optimizer2.zero_grad()
    l2.backward()
    pair.optimizer2.step()
    pair.optimizer1.zero_grad()
    l1.backward()
    pair.optimizer1.step()
    return l1.detach(), l2.detach()


def retain_zero_first_step(pair: TwoModels, x: Tensor, y1: Tensor, y2: Tensor) -> Losses:
    """``retain_graph``, and both ``zero_grad`` at the top: model1 also gets the gradient of ``l2``."""
    l1, l2 = pair.losses(x, y1, y2)
    pair.optimizer1.zero_grad()
    pair.optimizer2.zero_grad()
    l2.backward(retain_graph=True)
    pair.optimizer2.step()
    l1.backward()
    pair.optimizer1.step()
    return l1.detach(), l2.detach()


def summed_detach_step(pair: TwoModels, x: Tensor, y1: Tensor, y2: Tensor) -> Losses:
    """``detach`` between the models and one ``backward`` of ``l1 + l2``: each model its own loss."""
    l1, l2 = pair.losses(x, y1, y2, detach=True)
    pair.optimizer1.zero_grad()
    pair.optimizer2.zero_grad()
    (l1 + l2).backward()
    pair.optimizer2.step()
    pair.optimizer1.step()
    return l1.detach(), l2.detach()


def gan_step(
    generator: nn.Module,
    discriminator: nn.Module,
    generator_optimizer: Optimizer,
    discriminator_optimizer: Optimizer,
    criterion: Callable[[Tensor, Tensor], Tensor],
    noise: Tensor,
    real: Tensor,
) -> Losses:
    """One alternating step: the discriminator on ``fake.detach()``, then the generator on a fresh ``D(fake)``.

    Returns the losses of the generator and of the discriminator, each at the parameters it was computed with.
    """
    fake = generator(noise)
    real_logits, fake_logits = discriminator(real), discriminator(fake.detach())
    d_loss = criterion(real_logits, real_logits.new_ones(real_logits.shape)) + criterion(
        fake_logits, fake_logits.new_zeros(fake_logits.shape)
    )
    discriminator_optimizer.zero_grad()
    d_loss.backward()
    discriminator_optimizer.step()

    fake_logits = discriminator(fake)
    g_loss = criterion(fake_logits, fake_logits.new_ones(fake_logits.shape))
    generator_optimizer.zero_grad()
    g_loss.backward()
    generator_optimizer.step()
    return g_loss.detach(), d_loss.detach()
