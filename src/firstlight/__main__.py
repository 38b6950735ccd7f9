"""``python -m firstlight`` is ``firstlight``."""

from firstlight.cli.main import main

if __name__ == "__main__":
    main()
