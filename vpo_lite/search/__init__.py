"""Search with a trained policy: best-of-n, evolution, and trees. It changes no parameter."""
