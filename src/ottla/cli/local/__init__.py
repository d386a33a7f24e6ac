"""Commands that run or show processes on this machine: `up`, `demo`, `console`, `matches`."""
