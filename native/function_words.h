// The most frequent function words of the languages that Snowball stems: articles, prepositions, pronouns, forms of
// "be". Of languages that share words, also some that tell them apart. English first: of equals, the first language
// wins.
#pragma once

namespace hedgerow {

struct LanguageWords {
  const char* language;  // as Snowball calls it
  const char* code;      // ISO 639
  const char* words;
};

// clang-format off
inline constexpr LanguageWords function_words[] = {
    {"english", "en",
     "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were "
     "all her she there would their we him been has when who will no more if out so what up its about into than them can only other "
     "some could these two may then do any my now such like our over how between through during also being both where most"},
    {"german", "de",
     "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach "
     "wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man sein wurde sei "
     "wenn ihre diese dieser dieses kann zwischen unter wir ich eines ihrer ihren gegen vom können schon sowie wurden deren unsere"},
    {"french", "fr",
     "de la le et les des en un du une que est pour qui dans par plus au sur ne pas se ce il sont avec son aux ou cette ses mais "
     "comme on sa nous leur entre ont être tout fait elle ces été deux même aussi sans peut leurs dont après ils très où si bien "
     "vous notre ainsi sous lors chez"},
    {"spanish", "es",
     "de la que el en y los se del las un por con no una su para es al lo como más pero sus le ha este sí porque esta entre cuando "
     "muy sin sobre también me hasta hay donde quien desde todo nos durante todos uno les ni contra otros ese eso ante ellos esto "
     "son fue está era han ser así estos estas sino según cada"},
    {"portuguese", "pt",
     "de que não do da em um para com uma os no se na por mais as dos como mas ao ele das tem seu sua ou ser quando muito nos já "
     "está também só pelo pela até isso ela entre depois sem mesmo aos seus quem nas me esse eles foi são pelos suas num nem essa "
     "às à sobre este esta numa ainda pode"},
    {"italian", "it",
     "di che la il un in per una non sono da del si le della con dei nel al come più lo gli alla delle ha dal anche ma su se ci "
     "questo era nella degli questa stato loro tra essere ed sul dalla suo sua fra sulla molto solo cui quando dove dello dalle ai "
     "nei nelle sui alle quello quella perché ancora può hanno"},
    {"dutch", "nl",
     "de van het een en in is dat op te zijn met voor niet die aan er om ook als dan maar bij nog uit door over ze naar heeft hij "
     "tot worden wordt wat kan werd deze of hun meer geen was heb zou veel onder wel dit daar tegen zoals zich tussen moet haar "
     "onze hebben waar alleen"},
    {"russian", "ru",
     "и в не на что он с как это по но они к у из за то все так его для от мы же вы бы было или если только её был до ее их когда "
     "при уже где чтобы может об этого который также она быть со во ее даже после между этом которые"},
    {"swedish", "sv",
     "och att det som en på är av för med den till inte har de ett om jag men var sig från vi så kan när år han under också efter "
     "eller nu sin där vid mot ska skulle kommer ut får finns vara hade alla andra mycket än här då sedan över bara blir varit "
     "denna detta dessa genom mellan"},
    {"danish", "da",
     "og at det er en til på som med de den der ikke af for han var har fra et sig jeg vi men om efter blev skal kan også hvor "
     "eller hun nu over da ved når så vil ud sin deres være efter mod hvis kun mere meget noget blive denne dette disse mellem "
     "gennem havde havde uden"},
    {"norwegian", "no",
     "og det er en som på at til av med for har de den ikke et om var han seg jeg fra vi men ble etter skal kan også hvor eller "
     "hun nå over da ved når så vil ut sin deres være mot hvis bare mer mye noe bli denne dette disse mellom gjennom hadde ha "
     "uten etter fordi"},
    {"finnish", "fi",
     "ja on ei että se oli hän joka mutta myös ovat kun niin kuin tai sen mukaan jo nyt vain jos ole ne sekä kuitenkin olla sitä "
     "hänen tämä voi mitä vielä siitä joita jotka ollut olisi sitten minä tässä siinä koska eli ennen sillä kanssa tämän joiden "
     "näiden niiden jonka"},
    {"hungarian", "hu",
     "a az és hogy nem is egy ez de csak meg már volt van azt ki mint még el ha kell lehet vagy ezt be után szerint pedig majd "
     "amely amit aki ami között minden így mert itt olyan azonban illetve több nagy ezek azok sem ennek annak által úgy való"},
    {"polish", "pl",
     "i w na z się nie do to że jest o od jak po za ale co dla są tym przez tak czy już był ze tego oraz tylko może być ma przy "
     "jego także które który która by jej ich gdy ten jako pod nad było była bez lub między tej tych jednak"},
    {"czech", "cs",
     "a se v na je že to s z do o i ve jsem pro si jsou ale po tak jako za co by od který jeho byl podle jak také která které k "
     "však při není aby už jen bylo nebo byla mezi před nad pod být může roku ze ke kde když tento této těchto jejich"},
    {"romanian", "ro",
     "de şi și în a la cu pe nu că o se un mai este care pentru sau fi ca dar sunt prin al ce ai am fost după au său sa lui "
     "ale între până fără despre această acest aceste acestea dintre către doar dacă într cele cel cea îi îl"},
    {"turkish", "tr",
     "ve bir bu da de için ile çok daha olarak gibi ne ama en kadar olan var sonra ise mi ya ki diye ben hem değil her göre yok "
     "şey şu oldu ancak veya onun bunu ilk olduğu tarafından üzerinde arasında bütün kendi nasıl"},
    {"greek", "el",
     "και το να του η της με που για την από τα ο στο τη των σε είναι δεν θα οι τον στην τους μας ότι αυτό μια στη ένα στον ή αλλά "
     "πως αν όπως τις στις στα στους κατά μετά έχει ήταν προς μεταξύ αυτή αυτά"},
    {"arabic", "ar",
     "في من على أن إلى التي عن ما هذا لا مع هذه الذي كان كل ذلك بعد بين قد لم أو هو هي ولا كما عند أي حتى لكن منذ فيها فيه إن به "
     "لها له غير كانت حيث خلال أكثر وقد أنه دون"},
    {"persian", "fa",
     "در به از که این را با است آن برای یک خود تا کرد بر هم نیز شده بود می هر اما یا ما شد باید پس اگر آنها همه بین وی چه کند نیست "
     "دارد هستند شود هایی ای های"},
    {"indonesian", "id",
     "yang dan di ini itu dengan untuk dari dalam tidak akan pada adalah juga ke karena oleh sebagai ada mereka telah bisa lebih "
     "tersebut atau saya kami kita dapat sudah saat hanya tetapi lagi antara bahwa menjadi seperti namun secara para"},
    {"catalan", "ca",
     "de la el que i en un per els les del una amb no es al se és va com més dels seva aquest aquesta també són però fins entre "
     "hi ha ser han tot quan molt sense seu des pel als aquests ens altres aquestes on què perquè nosaltres amb"},
    {"basque", "eu",
     "eta da ez bat dira zen dute du ere izan baina hau edo den baino egin beste zuen bere oso dela arte bai ditu duen batean zer "
     "horrek nola hori batzuk zuten diren arabera artean baita gero baten dago"},
    {"irish", "ga",
     "an na agus is ar le go ach bhí níl seo sin don mar ag chuig ó leis ina faoi tá ba lena gach idir bheith iad siad raibh nach "
     "den nó atá chun roimh sé sí aige"},
    {"lithuanian", "lt",
     "ir kad yra į su iš tai bet ne buvo kaip už po ar tik jo dar jau nuo jos kai jų savo apie dėl prie arba taip pat per būti "
     "kurie kuri kuris iki tarp gali labai šis ši šio"},
    {"estonian", "et",
     "ja on ei et ta see oli kui ka aga mis oma seda ma nii selle ning siis või kes veel nad olid ole välja juba kuid üle pole ära "
     "tema mida oleks väga vaid need nende kõik mille pärast"},
    {"serbian", "sr",
     "je da se na za su od sa ne koji kao što iz ili ali koja koje bi do nije bio to po kako ovo samo već biti pre još sve "
     "između и је да се на за су од са не који као што из или али која које би до није био то како само већ бити између"},
    {"armenian", "hy",
     "եւ և է որ են մեջ այս մի իր հետ համար նաև ու այդ որը էր ես նա երբ որպես բայց նրա կամ չէ մասին հետո պետք դեպի վրա ըստ են որոնք"},
    {"hindi", "hi",
     "के में की है और से का को पर यह इस एक कि हैं ने लिए भी नहीं कर तो ही या हो था अपने साथ वह जो करने कुछ गया किया थे उनके इसके बाद जब"},
    {"nepali", "ne",
     "र को मा छ यो पनि भएको गर्न एक लागि गरेको हो छन् भने त्यो तर थियो गर्ने गरी हुन भन्ने उनले आफ्नो तथा रहेको गरिएको नेपाल हुने"},
    {"tamil", "ta",
     "மற்றும் ஒரு இந்த அந்த என்று என்ற இது அவர் அது உள்ள போது வந்து பின்னர் ஆனால் இருந்து வரை கொண்டு மிக இல்லை தான் இதன் அதன் என "
     "முதல் வேண்டும் இருக்கும்"},
    {"yiddish", "yi",
     "און די פון אין איז דער צו מיט אז ער האט אויף ניט נישט דאס ווי פאר אויך איר מען זיין זענען אבער וואס זיי געווען נאך ביי ווען מיר "
     "קיין"},
    {"esperanto", "eo",
     "la kaj de en estas al ne por kiu estis kun ke oni li sed aŭ el pri tiu ĝi tio kiuj ĉi ankaŭ iĝi ili kiel pli per dum nur ĝis "
     "estos tiel kio ŝi jam ĉiuj tre sur inter"},
    {"sesotho", "st",
     "ho le ya ba ka ke ha hore wa tse mme hona tsa bona empa yena hape kapa haholo ntse tla ne sa bile eo yang moo joalo tsohle "
     "kamoo feela"},
};
// clang-format on

}  // namespace hedgerow
