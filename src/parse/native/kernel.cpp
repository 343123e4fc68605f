// Parses requests one after the other: indexes the body, walks its events and writes their rows.
// Takes rows back where the document is undecided, or an event of an all-or-nothing request is
// invalid.
#include "kernel.h"

#include <climits>

#include "key.h"
#include "values.h"

namespace weir {

static const char outside_slab[] = "parse: a request, or its bits, lies outside the slab";
static const char too_large[] = "parse: a batch holds at most 2 GiB";

static Rows& thread_rows() {
  static thread_local Rows rows;
  return rows;
}

Kernel::Kernel(PoolSchema schema)
    : schema_(std::move(schema)), paths_(schema_), walk_(paths_), document_(thread_document()), rows_(thread_rows()) {
  bytes_ = sizeof(Kernel) + paths_.bytes() + paths_.size() * sizeof(Slot);
  for (const SchemaColumn& column : schema_.columns) bytes_ += sizeof(column) + column.property.capacity();
}

// The rows of whichever kernel worked before become this one's, empty.
void Kernel::take_rows() {
  rows_.owner = this;
  while (rows_.columns.size() < schema_.columns.size()) rows_.columns.emplace_back(Kind::binary);
  for (size_t index = 0; index < schema_.columns.size(); index++)
    rows_.columns[index].begin(kind_of(schema_.columns[index].type));
  rows_.key.begin(Kind::binary);
  rows_.outcomes.size = rows_.errors.size = 0;
  row_ = 0;
  rows_max_ = 0;
}

void Kernel::reserve_rows(size_t rows) {
  if (rows <= rows_max_) return;
  rows_max_ = rows < 16 ? 16 : 2 * rows;
  for (size_t index = 0; index < schema_.columns.size(); index++) rows_.columns[index].reserve(rows_max_);
  rows_.key.reserve(rows_max_);
  rows_.payload.reserve(rows_max_);
}

void Kernel::truncate(uint32_t rows) {
  for (size_t index = 0; index < schema_.columns.size(); index++) rows_.columns[index].truncate(rows);
  rows_.key.truncate(rows);
  row_ = rows;
}

const char* Kernel::parse(const uint8_t* slab, size_t slab_bytes, const double* table, size_t requests) {
  layout_.reset();
  take_rows();
  reserve_rows(1);
  size_t body_bytes = 0;
  for (size_t index = 0; index < requests; index++) {
    Request request;
    const char* mistake = read_request(slab, slab_bytes, table + index * request_words, &request);
    if (mistake != nullptr) return mistake;
    // Offsets are 32 bits wide, and no column holds more bytes than the bodies.
    if ((body_bytes += request.bytes) > INT_MAX / 2) return too_large;
    request.index = static_cast<int32_t>(index);
    mistake = parse_request(request);
    if (mistake != nullptr) return mistake;
  }
  // A batch of deletes has no column of the schema.
  const size_t columns = schema_.deletes ? 0 : schema_.columns.size();
  layout_ = std::make_unique<Layout>(row_, rows_.payload, rows_.key, rows_.columns.data(), columns);
  if (layout_->bytes() <= INT_MAX) return nullptr;
  layout_.reset();
  return too_large;
}

// A whole number of [0, max].
static bool whole(double value, size_t max, size_t* out) {
  if (!(value >= 0 && value <= static_cast<double>(max))) return false;
  *out = static_cast<size_t>(value);
  return static_cast<double>(*out) == value;
}

const char* Kernel::read_request(const uint8_t* slab, size_t slab_bytes, const double* row,
                                 Request* request) const {
  size_t offset, flags;
  if (!whole(row[request_offset], slab_bytes, &offset) ||
      !whole(row[request_bytes], slab_bytes - offset, &request->bytes) ||
      !whole(row[request_flags], INT_MAX, &flags) || !(row[request_received_at] > -9e15) ||
      !(row[request_received_at] < 9e15))
    return outside_slab;
  request->body = slab + offset;
  request->all_or_nothing = (flags & flag_all_or_nothing) != 0;
  request->received_at_micros = static_cast<int64_t>(row[request_received_at]);
  request->bits = nullptr;
  request->bits_bytes = 0;
  if (row[request_bits] == -1) return nullptr;
  if (!whole(row[request_bits], slab_bytes, &offset)) return outside_slab;
  request->bits = slab + offset;
  request->bits_bytes = slab_bytes - offset;
  return nullptr;
}

const char* Kernel::parse_request(const Request& request) {
  const uint32_t rows_before = row_;
  const size_t errors_before = rows_.errors.size;
  uint32_t events = 0;
  bool undecided = true;
  if (document_.index(request.body, request.bytes)) {
    const char* mistake = parse_document(request, &events, &undecided);
    if (mistake != nullptr) return mistake;
  }
  if (undecided) rows_.errors.size = errors_before;
  bool nothing = undecided || (request.all_or_nothing && rows_.errors.size > errors_before);
  if (nothing) truncate(rows_before);
  rows_.outcomes.push(undecided ? 0 : static_cast<int32_t>(events));
  rows_.outcomes.push(static_cast<int32_t>(row_ - rows_before));
  rows_.outcomes.push(undecided ? document_undecided : 0);
  rows_.outcomes.push(-1);
  return nullptr;
}

// Parses all events of the document. `undecided` stays true unless every structural index was
// passed and found in order.
const char* Kernel::parse_document(const Request& request, uint32_t* events, bool* undecided) {
  uint32_t place = 0;
  uint8_t first = *document_.at(0);
  if (first != '{' && first != '[') return nullptr;
  const uint32_t depth = first == '[' ? 1 : 0;
  place += depth;
  bool more = first == '{' || *document_.at(place) != ']';
  if (!more) place++;
  // An object among others takes three structural indexes or more.
  const size_t objects_max = first == '{' ? 1 : document_.count() / 3 + 1;
  reserve_rows(row_ + (objects_max < events_max ? objects_max : events_max));
  while (more) {
    if (*events == events_max) return nullptr;
    if (request.bits != nullptr && *events / 8 >= request.bits_bytes) return outside_slab;
    if (!parse_event(request, *events, place, depth)) return nullptr;
    *events += 1;
    if (first == '{') break;
    uint8_t c = *document_.at(place++);
    if (c != ',' && c != ']') return nullptr;
    more = c == ',';
  }
  *undecided = place != document_.count();
  return nullptr;
}

// Parses one event into a row or an error. Returns false where the request is undecided.
bool Kernel::parse_event(const Request& request, uint32_t event, uint32_t& place, uint32_t depth) {
  bool wanted = request.bits == nullptr || (request.bits[event / 8] >> (event % 8) & 1) != 0;
  uint8_t first = *document_.at(place);
  if (!wanted || first != '{') {
    if (!skip_value(document_, place, depth)) return false;
    if (wanted) report(request, event, error_word(error_not_object, found_at(first)), -1);
    return true;
  }
  const uint32_t from = document_.places()[place];
  if (!walk_.event(document_, place, depth)) return false;
  int32_t column = -1;
  int32_t error = set_row(request, &column);
  if (error != 0) {
    truncate(row_);
    if (error == error_undecided) return false;
    report(request, event, error, column);
    return true;
  }
  // From brace to brace: the structural index before `place` is the closing one.
  const uint32_t payload_bytes = schema_.deletes ? 0 : document_.places()[place - 1] + 1 - from;
  rows_.payload.set(row_, request.body + from, payload_bytes);
  row_++;
  return true;
}

// Writes row row_ of all columns and the key. Returns 0, or the first error in the schema's order
// with its column.
int32_t Kernel::set_row(const Request& request, int32_t* column) {
  for (size_t index = 0; index < schema_.columns.size(); index++) {
    int32_t error =
        set_value(document_, schema_.columns[index], walk_.column(index), rows_.columns[index], row_);
    if (error == 0) continue;
    *column = static_cast<int32_t>(index);
    return error;
  }
  return set_key(schema_, rows_.columns, request.received_at_micros, rows_.key, row_) ? 0 : error_undecided;
}

void Kernel::report(const Request& request, uint32_t event, int32_t word, int32_t column) {
  for (int32_t value : {request.index, static_cast<int32_t>(event), word, column}) rows_.errors.push(value);
}

}  // namespace weir
