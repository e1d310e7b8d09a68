"""Labels as things with names: vocabularies, read from files and written back, and their hierarchy."""

from .lookup import Match
from .names import Entry, Name, VocabularyWarning
from .reading import read_vocabulary
from .vocabulary import Vocabulary

__all__ = ["Entry", "Match", "Name", "Vocabulary", "VocabularyWarning", "read_vocabulary"]
