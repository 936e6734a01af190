"""Policies: a causal language model with a LoRA adapter, its tokenizer, and fast sampling."""
