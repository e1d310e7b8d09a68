// A searcher that a thread keeps from call to call.
#pragma once

#include <memory>
#include <utility>

namespace hedgerow {

// Calls use(searcher) with the thread's own searcher, whose scratch memory is already there. It is out while it is
// used: a search asks Python whether to go on, and what runs there (a handler of a signal, say) may search, too. One
// that fails is not kept.
template <class Searcher, class Model, class Use>
void with_kept_searcher(const Model& model, Use use) {
  thread_local std::unique_ptr<Searcher> kept;
  std::unique_ptr<Searcher> own = std::move(kept);
  if (!own) own = std::make_unique<Searcher>(model);
  own->use(model);
  use(*own);
  kept = std::move(own);
}

}  // namespace hedgerow
