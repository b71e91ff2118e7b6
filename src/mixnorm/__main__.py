"""``python -m mixnorm`` is the `mixnorm` command, for environments whose scripts are not on the path."""

from mixnorm.commands.main import main

if __name__ == "__main__":
    main()
