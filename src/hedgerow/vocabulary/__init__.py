"""Labels as things with names: vocabularies, read from files and written back, and their hierarchy."""

from .names import Name, VocabularyWarning
from .reading import read_vocabulary
from .vocabulary import Vocabulary

__all__ = ["Name", "Vocabulary", "VocabularyWarning", "read_vocabulary"]
