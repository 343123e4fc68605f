// One body, indexed by simdjson: where each bracket, comma, colon, string and scalar begins.
//
// simdjson's first stage alone runs here. It proves valid UTF-8, closed strings and no raw control characters in
// them, and finds the structural indexes; the grammar between them is checked by the walk, which passes every one
// once, and escapes here. Nothing counts before both are through. A tape (simdjson's second stage) would decode
// each string and number of the body, to use some: it took a third of the kernel's time.
#pragma once
#include <memory>

#include "bytes.h"
#include "simdjson.h"

namespace weir {

// Bytes of the body, or of a decoded string. At least 8 may be read at `data` whatever `bytes` is.
struct Text {
  const char* data;
  uint32_t bytes;
};

class Document {
 public:
  // Copies the body and indexes it. False: surely or possibly not JSON in valid UTF-8.
  bool index(const uint8_t* body, size_t bytes);

  // The structural indexes, as offsets in the body; behind the last one (`count`) stands the body's end, twice.
  const uint32_t* places() const { return parser_->structural_indexes.get(); }
  uint32_t count() const { return parser_->n_structural_indexes; }

  // The body; behind it stand zeros, so that whoever reads on is stopped.
  const uint8_t* source() const { return padded_.data; }
  const uint8_t* at(uint32_t place) const { return padded_.data + places()[place]; }

  // Whether any string may hold an escape.
  bool has_escapes() const { return has_escapes_; }

 private:
  bool reserve(size_t bytes);

  Buffer<uint8_t> padded_;
  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser_;
  bool has_escapes_ = false;
};

// This thread's document. All kernels of a thread share it: it grows to several MiB, and there may be thousands of
// plans, of which only one is at work at a time.
Document& thread_document();

// The source bytes of the value from structural index `begin` up to index `end`, white space behind it off.
inline Text source_of(const Document& document, uint32_t begin, uint32_t end) {
  const uint8_t* first = document.at(begin);
  const uint8_t* last = document.at(end);
  while (last[-1] == ' ' || last[-1] == '\n' || last[-1] == '\r' || last[-1] == '\t') last--;
  return {reinterpret_cast<const char*>(first), static_cast<uint32_t>(last - first)};
}

}  // namespace weir
