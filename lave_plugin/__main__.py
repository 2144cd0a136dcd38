"""The ``lave`` command, or what is missing for it."""

import sys


def main() -> None:
    """Run it; where the packages of an engine are missing, say so."""
    try:
        from lave_plugin.cli import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lave_plugin"):
            raise
        sys.exit(
            f"lave: {error.name} is not installed in {sys.prefix}. The plugin has no dependencies "
            "of its own and lives in the environment of SGLang, which has all that it needs: "
            "install it there."
        )
    command()


if __name__ == "__main__":
    main()
