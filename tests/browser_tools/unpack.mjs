// Unpacks Chromium with its libraries and fonts into TMPDIR, and prints where the program is.
// The package unpacks its libraries where it believes to be in the environment that it was made for.
process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs22.x';
const { default: chromium } = await import('@sparticuz/chromium');
console.log(await chromium.executablePath());
