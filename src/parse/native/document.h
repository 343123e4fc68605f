// One body, indexed by simdjson: the places where brackets, commas, colons, strings and scalars
// begin.
//
// Only simdjson's first stage runs here. It proves that the UTF-8 is valid, that strings are closed
// and that they hold no raw control characters, and it finds the structural indexes. This file
// checks escapes. The walk checks the grammar between the indexes and passes each of them once. No
// row counts before all checks are done. simdjson's second stage, the tape, would decode every
// string and number of the body to use some of them: it took a third of the kernel's time.
//
// simdjson.h takes a second to compile, so it is included where it is called, and not here.
#pragma once
#include <memory>

#include "bytes.h"

namespace simdjson::internal {
class dom_parser_implementation;
}

namespace weir {

// Bytes of the body or of a decoded string. At least 8 bytes may be read at `data`, however small
// `bytes` is.
struct Text {
  const char* data;
  uint32_t bytes;
};

class Document {
 public:
  Document();
  ~Document();

  // Copies the body and indexes it. Returns false where this stage cannot tell that the body is
  // JSON in valid UTF-8; the reference parser then decides.
  bool index(const uint8_t* body, size_t bytes);

  // The structural indexes, as offsets in the body. Behind the last one (`count`) the body's end
  // stands twice.
  const uint32_t* places() const { return places_; }
  uint32_t count() const { return count_; }

  // The body, with zeros behind it that end every loop over it.
  const uint8_t* source() const { return padded_.data; }
  const uint8_t* at(uint32_t place) const { return padded_.data + places()[place]; }

  // Whether any string may hold an escape.
  bool has_escapes() const { return has_escapes_; }

 private:
  bool reserve(size_t bytes);

  Buffer<uint8_t> padded_;
  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser_;
  const uint32_t* places_ = nullptr;
  uint32_t count_ = 0;
  bool has_escapes_ = false;
};

// This thread's document. All kernels of a thread share it: it grows to several MiB, there may be
// thousands of kernels, and one of them works at a time.
Document& thread_document();

// The source bytes of the value from structural index `begin` up to index `end`, without the white
// space behind it.
inline Text source_of(const Document& document, uint32_t begin, uint32_t end) {
  const uint8_t* first = document.at(begin);
  const uint8_t* last = document.at(end);
  while (last[-1] == ' ' || last[-1] == '\n' || last[-1] == '\r' || last[-1] == '\t') last--;
  return {reinterpret_cast<const char*>(first), static_cast<uint32_t>(last - first)};
}

// True where each backslash in [at, end) begins a valid escape, and each escaped surrogate is one
// half of a pair. The walk refuses backslashes outside strings.
bool escapes_valid(const uint8_t* at, const uint8_t* end);

// Decodes a string of valid escapes into `out`, which has room for `bytes` bytes. Returns how many
// it wrote.
size_t unescape(const char* from, size_t bytes, uint8_t* out);

}  // namespace weir
