"""Find texts that are unlike the training data (out-of-distribution, OOD)."""

from hedgerow import HedgerowTextClassifier
from hedgerow.data.sample import load_sample

sample = load_sample()
model = HedgerowTextClassifier(method="bagging", members=5, random_state=0)
model.fit(sample.train_texts, sample.train_labels)
model.learn_ood(sample.test_texts[:300])  # texts that the model was not trained on show what is usual

texts = [
    sample.test_texts[400],
    "a fast terminal music player with playlists",
    "Melt the butter in a heavy pan, add the chopped onions and stir until they turn golden",
]
found = model.ood_scores(texts)
for row, text in enumerate(texts):
    # Of texts like the held-out ones, on average at most 5 % have a p-value of 0.05 or less.
    verdict = "out-of-distribution" if found.p_value[row] <= 0.05 else "like the training data"
    print(f"{verdict:23} score {found.score[row]:5.2f}  p-value {found.p_value[row]:.3f}  {text[:50]}")
