"""One step of a GAN in two more forms than ``torchref.two_model.gan_step``, the alternating one."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.optim import Optimizer

from .penalty import gradient_penalty

Losses = tuple[Tensor, Tensor]


def simultaneous_gan_step(
    generator: nn.Module,
    discriminator: nn.Module,
    generator_optimizer: Optimizer,
    discriminator_optimizer: Optimizer,
    criterion: Callable[[Tensor, Tensor], Tensor],
    noise: Tensor,
    real: Tensor,
) -> Losses:
    """Both gradients at the old parameters, then both optimizers.

    The backward of the generator's loss leaves gradients in the discriminator too; ``zero_grad`` between the backwards
    removes them. Returns the losses of the generator and of the discriminator before the update.
    """
    fake = generator(noise)
    real_logits, fake_logits, fooled = discriminator(real), discriminator(fake.detach()), discriminator(fake)
    d_loss = criterion(real_logits, real_logits.new_ones(real_logits.shape)) + criterion(
        fake_logits, fake_logits.new_zeros(fake_logits.shape)
    )
    g_loss = criterion(fooled, fooled.new_ones(fooled.shape))
    generator_optimizer.zero_grad()
    g_loss.backward()
    discriminator_optimizer.zero_grad()
    d_loss.backward()
    generator_optimizer.step()
    discriminator_optimizer.step()
    return g_loss.detach(), d_loss.detach()


def wgan_gp_step(
    generator: nn.Module,
    critic: nn.Module,
    generator_optimizer: Optimizer,
    critic_optimizer: Optimizer,
    noise: Tensor,
    real: Tensor,
    mix: Tensor,
    *,
    n_critic: int = 5,
    penalty: float = 10.0,
) -> Losses:
    """``n_critic`` critic steps, each on every ``n_critic``-th row of the batch, then the generator on all the noise.

    ``mix (n,)`` says where between real and fake the gradient of the critic is penalized. Returns the losses of the
    generator and of the last critic step, each at the parameters it was computed with.
    """
    for z, x, u in ((noise[i::n_critic], real[i::n_critic], mix[i::n_critic]) for i in range(n_critic)):
        fake = generator(z).detach()
        c_loss = critic(fake).mean() - critic(x).mean() + penalty * gradient_penalty(critic, x, fake, u)
        critic_optimizer.zero_grad()
        c_loss.backward()
        critic_optimizer.step()

    g_loss = -critic(generator(noise)).mean()
    generator_optimizer.zero_grad()
    g_loss.backward()
    generator_optimizer.step()
    return g_loss.detach(), c_loss.detach()
