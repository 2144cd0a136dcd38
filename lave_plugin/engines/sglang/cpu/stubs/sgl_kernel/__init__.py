"""Import-only sgl_kernel. Its CPU build is not a published wheel; torch's own kernels serve."""

from import_only import make_import_only

make_import_only(__name__)
