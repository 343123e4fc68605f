// The key column: what identifies a record, encoded so that equal keys have equal bytes and bytes sort as
// values do.
#pragma once
#include "builders.h"
#include "plan.h"

namespace weir {

// Writes row `row` of `into` from the plan's columns at the same row. False: a long id needs SHA-256 and this
// process has none.
bool set_key(const Plan& plan, const std::vector<Builder>& columns, int64_t received_at_micros, Builder& into,
             uint32_t row);

}  // namespace weir
