"""Tag texts, and say how sure the model is of each tag and why it is unsure."""

from hedgerow import HedgerowTextClassifier
from hedgerow.data.sample import load_sample

sample = load_sample()  # descriptions of Debian packages and their tags

# Five members, each trained on its own sample of the texts. Where they disagree, the model lacks knowledge.
model = HedgerowTextClassifier(method="bagging", members=5, random_state=0)
model.fit(sample.train_texts, sample.train_labels)

texts = ["a fast terminal music player with playlists", "library for reading and writing audio files"]
best = model.predict_uncertain(texts, k=3)
for row, text in enumerate(texts):
    print(text)
    for rank, label in enumerate(best.labels[row]):
        data, knowledge = best.data[row, rank], best.knowledge[row, rank]
        print(f"  {label:24} {best.probability[row, rank]:.2f}  data {data:.2f}  knowledge {knowledge:.2f}")
