"""Newton's method on the active groups: ``host`` for one problem at a time, ``batched`` for whole stacks."""
