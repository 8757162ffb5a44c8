"""Signals between the processes of `hedgerow serve --processes N`."""

import signal

# Drain, and go on until another signal. The supervisor sends it to the owner of the data, which its
# readers need until they have stopped.
DRAIN_SIGNAL = signal.SIGUSR1
