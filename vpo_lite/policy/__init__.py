"""Policies: a causal language model with a LoRA adapter, its tokenizer, and sampling."""

import logging

# peft imports bitsandbytes where it is installed, and its log lines would fill the user's stderr.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
