/** The language in which labels are called: the first of the browser's languages that the model has names in. */

let wanted = null;

/** Chooses anew for a model; one without names, or without these languages, leaves the choice to the server. */
export function chooseLanguage({ languages }) {
  const known = languages ?? [];
  const parts = (tag) => [tag.toLowerCase(), tag.toLowerCase().split("-")[0]];
  const fits = (tag) => known.some((own) => parts(tag).includes(own) || own.startsWith(`${parts(tag)[0]}-`));
  wanted = navigator.languages.find(fits) ?? null;
  wanted &&= known.includes(wanted.toLowerCase()) ? wanted : parts(wanted)[1];
}

/** What a request says of the language. */
export const inLanguage = () => (wanted === null ? {} : { lang: wanted });
