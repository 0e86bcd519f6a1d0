"""One step of a classifier with an auxiliary head and a probe, and of two classifiers that teach each other."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

Losses = tuple[Tensor, Tensor]


@dataclass
class WithAuxiliaryHead:
    """A classifier whose early features also feed a second head, and a probe that reads them without moving them."""

    early: nn.Module
    late: nn.Module
    auxiliary: nn.Module
    probe: nn.Module


def auxiliary_step(
    model: WithAuxiliaryHead,
    optimizer: Optimizer,
    probe_optimizer: Optimizer,
    x: Tensor,
    label: Tensor,
    attribute: Tensor,
) -> Losses:
    """One forward pass, ``late + 0.3 auxiliary`` into the classifier, the probe's own loss into the probe.

    Returns the loss of the classifier and that of the probe before the update.
    """
    features = model.early(x)
    total = F.cross_entropy(model.late(features), label) + 0.3 * F.cross_entropy(model.auxiliary(features), label)
    probe_loss = F.cross_entropy(model.probe(features.detach()), attribute)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    probe_optimizer.zero_grad()
    probe_loss.backward()
    probe_optimizer.step()
    return total.detach(), probe_loss.detach()


def mutual_losses(model1: nn.Module, model2: nn.Module, x: Tensor, label: Tensor) -> Losses:
    """Cross-entropy, and the divergence from what the other says, which is a constant."""
    logits1, logits2 = model1(x), model2(x)

    def loss(own: Tensor, other: Tensor) -> Tensor:
        taught = F.kl_div(F.log_softmax(own, dim=1), F.softmax(other.detach(), dim=1), reduction="batchmean")
        return F.cross_entropy(own, label) + taught

    return loss(logits1, logits2), loss(logits2, logits1)


def mutual_step(
    model1: nn.Module, model2: nn.Module, optimizer1: Optimizer, optimizer2: Optimizer, x: Tensor, label: Tensor
) -> Losses:
    """Both learn from what the other said before either moved."""
    l1, l2 = mutual_losses(model1, model2, x, label)
    for loss, optimizer in ((l1, optimizer1), (l2, optimizer2)):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return l1.detach(), l2.detach()


def mutual_in_turn_step(
    model1: nn.Module, model2: nn.Module, optimizer1: Optimizer, optimizer2: Optimizer, x: Tensor, label: Tensor
) -> Losses:
    """As the paper has it: the second learns from what the first says after its step."""
    l1, _ = mutual_losses(model1, model2, x, label)
    optimizer1.zero_grad()
    l1.backward()
    optimizer1.step()

    _, l2 = mutual_losses(model1, model2, x, label)
    optimizer2.zero_grad()
    l2.backward()
    optimizer2.step()
    return l1.detach(), l2.detach()
