// Writes one value of an event into one row of a column.
#pragma once
#include "builders.h"
#include "walk.h"

namespace weir {

// Writes row `row` of `into` from the slot that the walk filled. `slot` is null where the event has
// no value. Returns 0 or an error word.
int32_t set_value(const Document& document, const SchemaColumn& column, const Slot* slot, Builder& into,
                  uint32_t row);

// The kind (found_…) of the valid value whose first byte this is.
int32_t found_at(uint8_t first);

}  // namespace weir
