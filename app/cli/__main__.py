"""``python -m app.cli``: the command ``interintent``."""

from app.cli.main import main

if __name__ == "__main__":
    main()
