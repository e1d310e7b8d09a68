"""Calibrate on held-out data, then accept, reject or defer each label with a guarantee."""

import random

from hedgerow import HedgerowTextClassifier, learn_from_held_out
from hedgerow.data.sample import load_sample

sample = load_sample()
model = HedgerowTextClassifier(method="bagging", members=5, random_state=0)
model.fit(sample.train_texts, sample.train_labels)

# Held-out texts must be like the new ones, so shuffle before you cut. 300 fit calibration, OOD detection and
# thresholds; the other 200 play the new ones.
rows = list(zip(sample.test_texts, sample.test_labels, strict=True))
random.Random(0).shuffle(rows)
texts, labels = zip(*rows, strict=True)
learned = learn_from_held_out(model, texts[:300], labels[:300])
print(f"calibration error of the best five labels: {learned.before[5]:.3f}, then {learned.after[5]:.3f}")

decisions = model.decide(texts[300:], wrong_at_most=0.2, missed_at_most=0.2)
for guarantee in decisions.guarantees:
    print(guarantee.words)
print("accept:", ", ".join(decisions[0].accept) or "nothing")
print("for a person to review:", len(decisions[0].review), "labels")

# What came of it. One draw of data may be above 20 %; the guarantee is about the mean over draws.
lost = []
for found, truth in zip(decisions, labels[300:], strict=True):
    kept = {*found.accept, *found.review}
    lost.append(sum(label not in kept for label in truth) / len(truth))
print(f"true labels missed, mean over texts: {sum(lost) / len(lost):.3f}")
