// Indexing a body, and the check of its escapes.
#include "document.h"

#include "schema.h"
#include "simdjson.h"

namespace weir {

Document::Document() = default;
Document::~Document() = default;

Document& thread_document() {
  static thread_local Document document;
  return document;
}

bool Document::reserve(size_t bytes) {
  if (parser_ != nullptr && parser_->capacity() >= bytes) return true;
  size_t capacity = 64 * 1024;
  while (capacity < bytes) capacity *= 2;
  padded_.reserve(capacity + simdjson::SIMDJSON_PADDING);
  if (parser_ == nullptr)
    return !simdjson::active_implementation->create_dom_parser_implementation(capacity, depth_max, parser_);
  return !parser_->allocate(capacity, depth_max);
}

bool Document::index(const uint8_t* body, size_t bytes) {
  if (bytes < 2 || bytes > body_bytes_max || !reserve(bytes)) return false;
  // The slab holds other bodies behind this one, and it is shared: the bytes that are validated
  // must not change.
  std::memcpy(padded_.data, body, bytes);
  std::memset(padded_.data + bytes, 0, simdjson::SIMDJSON_PADDING);
  if (parser_->stage1(padded_.data, bytes, false)) return false;
  places_ = parser_->structural_indexes.get();
  count_ = parser_->n_structural_indexes;
  const void* escape = std::memchr(padded_.data, '\\', bytes);
  has_escapes_ = escape != nullptr;
  return !has_escapes_ || escapes_valid(static_cast<const uint8_t*>(escape), padded_.data + bytes);
}

}  // namespace weir
