// The search takes a dash before a word for "without this word": `--shard-over` would find everything else. What is
// typed stays as it is; the search reads it without the dashes before its words.
const field = document.querySelector("[data-md-component=search-query]");
const typed = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");

if (field) {
  Object.defineProperty(field, "value", {
    get() {
      return typed.get.call(this).replace(/(^|\s)-+(?=\w)/g, "$1");
    },
    set(text) {
      typed.set.call(this, text);
    },
  });
}
