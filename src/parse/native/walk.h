// A walk passes every structural index of a document once. It checks the grammar between them and
// finds the schema's values in each event.
#pragma once
#include "paths.h"

namespace weir {

// The value at a node of the path tree: the structural index of its first byte, and the index
// behind it. It counts only with the stamp of the current event.
struct Slot {
  uint32_t stamp = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
};

class Walk {
 public:
  explicit Walk(const Paths& paths) : paths_(paths), slots_(paths.size()) {}

  // Fills the slots from the object at `place` and moves `place` behind it. `depth` containers are
  // open around it. Returns false where it is not JSON, or it may not be.
  bool event(const Document& document, uint32_t& place, uint32_t depth);

  // The value of a column in the last event; null where there is none.
  const Slot* column(size_t index) const {
    const Slot& whole = slots_[paths_.whole(index)];
    if (whole.stamp == stamp_) return &whole;
    const Slot& path = slots_[paths_.path(index)];
    return path.stamp == stamp_ ? &path : nullptr;
  }

 private:
  bool object(const Document& document, uint32_t& place, uint32_t depth, int32_t node);
  bool value(const Document& document, uint32_t& place, uint32_t depth, int32_t node);
  Text key(const Document& document, uint32_t place);
  Text unescaped(Text key);

  const Paths& paths_;
  std::vector<Slot> slots_;
  uint32_t stamp_ = 0;
  Buffer<uint8_t> key_;
};

// Moves `place` behind the value that begins there. `depth` containers are open around it. Returns
// false where it is not JSON, or it may not be.
bool skip_value(const Document& document, uint32_t& place, uint32_t depth);

}  // namespace weir
