"""The deep base model: a transformer fine-tuned over the label tree, its embeddings beside tf-idf.

Needs torch and transformers: ``pip install 'hedgerow[deep]'``. Nothing else in the package imports this.
"""
