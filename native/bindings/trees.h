// Tree models, for all binding files that take them.
#pragma once

#include <utility>

#include "bindings.h"
#include "tree_model.h"

// A TreeModel and whatever Python memory its chunks lie in.
class Model {
 public:
  explicit Model(hedgerow::TreeModel&& model) : model_(std::move(model)) {}
  Model(hedgerow::TreeModel&& model, nb::object keeper) : model_(std::move(model)), keeper_(std::move(keeper)) {}
  const hedgerow::TreeModel& get() const { return model_; }
  void expect(std::int64_t shared, std::int64_t first, std::int64_t last, int threads) {
    without_gil([&] {
      hedgerow::Watch watch;
      model_.expect({shared, first, last}, hedgerow::resolve_threads(threads), watch);
      return 0;
    });
  }

 private:
  hedgerow::TreeModel model_;
  nb::object keeper_;
};
