"""The detectors of the suite ``detection`` in torchvision, eager."""

from typing import Any

import numpy as np

from ._case import Outputs, Program
from ._detector import LEARNING_RATE, NUM_CLASSES, Detector
from ._device import Device
from ._torch import Tensor, to_numpy, torch, torch_program

try:
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.models.detection.image_list import ImageList
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7
except ImportError:
    raise ImportError("torchvision is not installed: pip install 'jaxfocal[torch]'") from None


def program(detector: Detector, device: Device) -> Program:
    """In bfloat16, under autocast, which casts the parameters, in float32, as it goes."""
    model = _model(detector).to(device.torch)
    images = torch.tensor(detector.images(), device=device.torch).permute(0, 3, 1, 2).contiguous()
    low = torch.autocast(device.torch, torch.bfloat16, enabled=detector.dtype == "bfloat16")
    if detector.task == "inference":
        model.eval()

        def infer() -> list[dict[str, Tensor]]:
            with torch.inference_mode(), low:
                return model(images)

        return torch_program(infer, lambda found: _inference_outputs(detector, found), device)

    targets = _targets(detector, device.torch)
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)

    def step() -> dict[str, Tensor]:
        """Lets its gradients go, so that they count as memory of a call, as they do in a compiled step."""
        with low:
            losses = model(images, targets)
            total = losses["classification"] + losses["bbox_regression"]
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        return losses

    return torch_program(step, lambda losses: _train_outputs(detector, model, losses), device)


def float64_outputs(detector: Detector) -> Outputs:
    """The same in float64, on the CPU."""
    model = _model(detector).double()
    images = torch.tensor(detector.images(), dtype=torch.float64).permute(0, 3, 1, 2)
    if detector.task == "inference":
        with torch.inference_mode():
            return _inference_outputs(detector, model.eval()(images))
    losses = model(images, _targets(detector, "cpu"))
    (losses["classification"] + losses["bbox_regression"]).backward()
    torch.optim.SGD(model.parameters(), LEARNING_RATE).step()
    return _train_outputs(detector, model, losses)


class _Padded(torch.nn.Module):
    """In place of torchvision's transform: images that are normalised and padded already."""

    def forward(self, images: Tensor, targets: Any = None) -> tuple[ImageList, Any]:
        height, width = images.shape[2:]
        return ImageList(images, [(height, width)] * len(images)), targets

    def postprocess(self, found: Any, image_sizes: Any, original_image_sizes: Any) -> Any:
        return found


def _model(detector: Detector) -> RetinaNet:
    backbone = resnet_fpn_backbone(
        backbone_name=f"resnet{detector.depth}",
        weights=None,
        norm_layer=torch.nn.BatchNorm2d,
        trainable_layers=5,
        returned_layers=[2, 3, 4],
        extra_blocks=LastLevelP6P7(256, 256),
    )
    model = RetinaNet(backbone, NUM_CLASSES)
    model.load_state_dict({name: torch.tensor(array) for name, array in detector.weights().items()})
    model.transform = _Padded()
    return model


def _targets(detector: Detector, device: str) -> list[dict[str, Tensor]]:
    return [
        {
            "boxes": torch.tensor(boxes[valid], device=device),
            "labels": torch.tensor(labels[valid], dtype=torch.int64, device=device),
        }
        for boxes, labels, valid in zip(*detector.targets(), strict=True)
    ]


def _inference_outputs(detector: Detector, found: list[dict[str, Tensor]]) -> Outputs:
    return detector.inference_outputs([_numpy(image["scores"]) for image in found])


def _train_outputs(detector: Detector, model: RetinaNet, losses: dict[str, Tensor]) -> Outputs:
    weights = {name: to_numpy(tensor) for name, tensor in model.state_dict().items()}
    return detector.train_outputs({name: _numpy(loss) for name, loss in losses.items()}, weights)


def _numpy(tensor: Tensor) -> np.ndarray:
    """numpy has no bfloat16."""
    return to_numpy(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
