"""Policies: a causal language model with a LoRA adapter, its tokenizer, and fast sampling."""

import os

# Read once, when OpenMP starts: waiting threads that spin make a step up to 29 times slower on shared cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
