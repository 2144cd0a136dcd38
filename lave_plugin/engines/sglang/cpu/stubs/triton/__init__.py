"""Import-only triton. The real one is 900 MB and can do nothing without a GPU."""

from import_only import make_import_only

__version__ = "3.0.0"
make_import_only(__name__)
