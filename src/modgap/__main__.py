"""``python -m modgap`` is ``modgap``."""

from modgap.cli import main

if __name__ == "__main__":
    main()
