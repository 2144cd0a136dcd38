"""Import-only torchvision: SGLang imports it for image models, its wheels need a CUDA torch."""

from import_only import make_import_only

__version__ = "0.0.0"
make_import_only(__name__)
