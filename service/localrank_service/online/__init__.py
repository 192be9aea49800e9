"""What is shown to whom: experiments (splits, canaries, shadows, interleaving), and the log of what was shown."""
