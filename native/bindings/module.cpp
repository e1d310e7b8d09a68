#include "bindings.h"
#include "kernels.h"
#include "scratch.h"

NB_MODULE(_native, m) {
  // Models that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const hedgerow::ScratchError& error) {
      PyErr_SetString(PyExc_OSError, error.what());
    }
  });
  m.doc() = "The native engine of hedgerow. Private: use the classes of the package.";
  m.def("simd_level", [] { return hedgerow::kernels().level; }, "The kernels in use: baseline, v3, v4 or v4_vbmi2.");
  bind_rows(m);
  bind_label_tree(m);
  bind_tree_model(m);
  bind_training(m);
  bind_forest(m);
  bind_measures(m);
  bind_calibration(m);
  bind_judge(m);
  bind_data(m);
  bind_text(m);
  bind_names(m);
}
