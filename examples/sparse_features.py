"""Train an ensemble on a sparse matrix of your own features, evaluate it, save it and load it again."""

from hedgerow import HedgerowClassifier, TfidfVectorizer, evaluate, load
from hedgerow.data.sample import load_sample

sample = load_sample()

# Any scipy sparse matrix will do. Here it is made of words; labels are lists, or a sparse 0/1 matrix.
vectorizer = TfidfVectorizer().fit(sample.train_texts)
X, X_test = vectorizer.transform(sample.train_texts), vectorizer.transform(sample.test_texts)
print(f"{X.shape[0]} rows, {X.shape[1]} features, {X.nnz / X.shape[0]:.0f} of them per row")

model = HedgerowClassifier(method="boosted-bagging", members=5, random_state=0)
model.fit(X, sample.train_labels)

figures = evaluate(model, X_test, sample.test_labels)
print(f"P@1 {figures.ranking.precision[1]:.3f}, P@5 {figures.ranking.precision[5]:.3f}")

model.save("tags.hedgerow", overwrite=True)
again = load("tags.hedgerow")  # verified, memory-mapped, never executes code
print("best labels of the first row:", ", ".join(again.top(X_test[:1], k=3).labels[0]))
